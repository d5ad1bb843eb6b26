"""Replay the Azure conversation trace through DynoSim and print the milliseconds it took.

Runs in an environment of its own: pip install ai-dynamo-runtime==1.4.2; pip install --no-deps ai-dynamo==1.4.2;
pip install msgspec transformers kubernetes prometheus-api-client plotly scipy pandas.

    python dynosim_replay.py RESULT.json TRACE.csv
"""

import csv
import datetime
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_trace_replay


def table(k, path):
    """The coefficients as the mocker's table: decode by (KV tokens, mean context), batch implied; prompts by length."""
    context = np.concatenate([np.arange(1.0, 16385.0), np.geomspace(16384.0, 262144.0, 1001)[1:]])
    tokens = np.array([0.0, 262144.0])
    prompt = np.arange(0.0, 8193.0)
    np.savez(
        path,
        prefill_isl=prompt,
        prefill_ttft_ms=k["p0"] + k["p1"] * prompt + k["p2"] * prompt * prompt,
        decode_active_kv_tokens=tokens,
        decode_context_length=context,
        decode_itl=k["a"] + k["b"] * tokens[:, None] / context[None, :] + k["c"] * tokens[:, None],
    )


def convert(trace, path):
    """Mocker's JSON lines; every prompt has block ids of its own."""
    with trace.open() as source:
        rows = [(datetime.datetime.fromisoformat(r["TIMESTAMP"]), r) for r in csv.DictReader(source)]
    first, ids = rows[0][0], 0
    with path.open("w") as out:
        for when, row in rows:
            size = int(row["ContextTokens"])
            blocks = -(-size // 512)
            request = {
                "timestamp": (when - first).total_seconds() * 1e3,
                "input_length": size,
                "output_length": int(row["GeneratedTokens"]),
                "hash_ids": list(range(ids, ids + blocks)),
            }
            ids += blocks
            out.write(json.dumps(request) + "\n")


def main():
    result = json.loads(Path(sys.argv[1]).read_text())
    with tempfile.TemporaryDirectory() as folder:
        step_times, requests = Path(folder) / "table.npz", Path(folder) / "trace.jsonl"
        table(result["table"]["coefficients"], step_times)
        convert(Path(sys.argv[2]), requests)
        engine = json.dumps(dict(result["engine_args"], planner_profile_data=str(step_times)))
        report = run_trace_replay(
            str(requests),
            extra_engine_args=MockEngineArgs.from_json(engine),
            num_workers=result["workers_at_start"],
            replay_mode="offline",
            router_mode="round_robin",
            trace_format="mooncake",
            trace_block_size=512,
        )
    print(dict(report)["wall_time_ms"])


if __name__ == "__main__":
    main()
