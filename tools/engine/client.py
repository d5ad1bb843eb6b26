"""A small Kubernetes client for tests: one kept connection, plain dicts in and out."""

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

Object = dict[str, Any]

SERVED_WITHIN = 30.0
"""Seconds from applying a CustomResourceDefinition until its kind answers."""


@dataclass(frozen=True)
class Answer:
    """What the server said. `body` is the object, or a Status with the reason."""

    status: int
    body: Object

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Refused(Exception):
    """The server did not accept a request; the text is the request and the server's reason."""

    def __init__(self, request: str, answer: Answer) -> None:
        super().__init__(f"{request}: {answer.status} {answer.message}")
        self.answer = answer


@dataclass(frozen=True)
class Resource:
    """Where a kind lives in the API."""

    path: str
    """/api/v1, or /apis/<group>/<version>."""
    plural: str
    namespaced: bool

    def collection(self, namespace: str | None) -> str:
        return f"{self.path}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{self.path}/{self.plural}"


class Client:
    """Speaks to one server. Not for use by several threads at once."""

    def __init__(self, url: str, token: str, authority: str) -> None:
        address = urlsplit(url)
        assert address.hostname, url
        trust = ssl.create_default_context(cadata=authority)
        self.connection = http.client.HTTPSConnection(address.hostname, address.port, context=trust, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self.resources: dict[tuple[str, str], Resource] = {}

    def close(self) -> None:
        self.connection.close()

    def request(self, method: str, path: str, body: Object | None = None, *, media: str = "application/json") -> Answer:
        """Sends one request. Any HTTP status is an answer; raises OSError when there is none."""
        content = None if body is None else json.dumps(body).encode()
        headers = self.headers | ({} if content is None else {"Content-Type": media})
        try:
            self.connection.request(method, path, content, headers)
            response = self.connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise ConnectionError(f"{method} {path}: {error}") from error
        if response.headers.get_content_type() != "application/json":
            return Answer(response.status, {"message": text.decode(errors="replace")})
        return Answer(response.status, json.loads(text))

    def resource(self, api_version: str, kind: str) -> Resource:
        """Where the server keeps a kind. Raises LookupError when it does not know it."""
        if (api_version, kind) not in self.resources:
            path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            answer = self.request("GET", path)
            for entry in answer.body.get("resources", []):
                if "/" not in entry["name"]:  # not a subresource, such as deployments/scale
                    self.resources[api_version, entry["kind"]] = Resource(path, entry["name"], entry["namespaced"])
        try:
            return self.resources[api_version, kind]
        except KeyError:
            raise LookupError(f"the server has no {api_version} {kind}") from None

    def collection_of(self, item: Object) -> str:
        resource = self.resource(item["apiVersion"], item["kind"])
        return resource.collection(item["metadata"].get("namespace", "default"))

    def install(self, definitions: Sequence[Object]) -> None:
        """Applies CustomResourceDefinitions and waits until the server serves each. Raises Refused, TimeoutError."""
        for definition in definitions:
            self.apply(definition)
        end = time.monotonic() + SERVED_WITHIN
        for definition in definitions:
            while not self._is_served(definition):
                if time.monotonic() > end:
                    raise TimeoutError(f"{definition['metadata']['name']} is not served after {SERVED_WITHIN:.0f} s")
                time.sleep(0.1)

    def _is_served(self, definition: Object) -> bool:
        spec = definition["spec"]
        versions = [version["name"] for version in spec["versions"] if version["served"]]
        with contextlib.suppress(LookupError):
            return all(self.resource(f"{spec['group']}/{name}", spec["names"]["kind"]) for name in versions)
        return False

    def create(self, item: Object, *, dry_run: bool = False) -> Object:
        """Creates an object, strictly: an unknown or a doubled field is refused, not dropped. Returns what is stored.

        dry_run: the server does all but store it: defaults, OpenAPI, CEL, admission. Raises Refused.
        """
        options = {"fieldValidation": "Strict", "fieldManager": "test"} | ({"dryRun": "All"} if dry_run else {})
        return self._accepted("POST", f"{self.collection_of(item)}?{urlencode(options)}", item)

    def apply(self, item: Object) -> Object:
        """Server-side apply: creates the object or brings it to this state. Raises Refused."""
        options = urlencode({"fieldValidation": "Strict", "fieldManager": "test", "force": "true"})
        path = f"{self.collection_of(item)}/{item['metadata']['name']}?{options}"
        return self._accepted("PATCH", path, item, media="application/apply-patch+yaml")

    def get(self, item: Object) -> Object | None:
        """The stored object of the same identity, or None."""
        answer = self.request("GET", f"{self.collection_of(item)}/{item['metadata']['name']}")
        return answer.body if answer.status == 200 else None

    def items(self, api_version: str, kind: str) -> list[Object]:
        """All objects of a kind, in all namespaces."""
        resource = self.resource(api_version, kind)
        listing = self._accepted("GET", f"{resource.path}/{resource.plural}")
        return [{"apiVersion": api_version, "kind": kind, **item} for item in listing["items"]]

    def delete(self, item: Object) -> None:
        """Deletes an object; one that is not there is fine. Raises Refused."""
        path = f"{self.collection_of(item)}/{item['metadata']['name']}"
        answer = self.request("DELETE", path)
        if answer.status not in {200, 202, 404}:
            raise Refused(f"DELETE {path}", answer)

    def _accepted(self, method: str, path: str, body: Object | None = None, **options: str) -> Object:
        answer = self.request(method, path, body, **options)
        if answer.status not in {200, 201}:
            raise Refused(f"{method} {path}", answer)
        return answer.body
