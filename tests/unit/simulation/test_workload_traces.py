"""Traces: every format read, every bad row refused with its line."""

import gzip
import json

import numpy as np
import pytest

from triplane.simulation.workload import TraceError, read_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
PLAIN = "time,input_tokens,output_tokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def write(folder, text, name="trace.csv"):
    path = folder / name
    path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("azure", AZURE + "2023-11-16 23:59:59.9000001,374,44\n2023-11-17 00:00:01.4000001,396,109\n"),
        ("azure", AZURE + "2024-05-10 00:00:00.009930+00:00,374,44\n2024-05-10 02:00:01.509930+02:00,396,109\n"),
        ("plain", PLAIN + "10,374,44\n11.5,396,109\n"),
        ("plain", "output_tokens,note,time,input_tokens\n44,a,10,374\n109,b,11.5,396\n"),
        ("burstgpt", BURST + "5,ChatGPT,374,44,418,API log\n6.5,GPT-4,396,109,505,API log\n"),
        ("mooncake", '{"timestamp": 100, "input_length": 374, "output_length": 44}\n'
                     '{"timestamp": 1600, "input_length": 396, "output_length": 109}\n'),
    ],
)  # fmt: skip
def test_formats(tmp_path, kind, text):
    trace = read_trace(write(tmp_path, text))
    assert (trace.format, trace.rows, trace.skipped) == (kind, 2, 0)
    assert trace.requests.arrival.tolist() == pytest.approx([0.0, 1.5], abs=1e-12)
    assert trace.requests.input_tokens.tolist() == [374, 396]
    assert trace.requests.output_tokens.tolist() == [44, 109]
    zipped = read_trace(write(tmp_path, gzip.compress(text.encode()), "zipped"))
    assert zipped.requests.arrival.tobytes() == trace.requests.arrival.tobytes()


def test_prefix_ids_agree_only_with_all_before_them(tmp_path):
    rows = [[7, 8, 9], [7, 8], [6, 8]]
    text = "".join(
        json.dumps({"timestamp": i, "input_length": 512 * len(h), "output_length": 1, "hash_ids": h}) + "\n"
        for i, h in enumerate(rows)
    )
    requests = read_trace(write(tmp_path, text)).requests
    assert requests.prefix_block == 512
    a, b, c = (requests.prefix_ids[i:j].tolist() for i, j in zip([0, 3, 5], [3, 5, 7], strict=True))
    assert a[:2] == b and c[0] != a[0] and c[1] != a[1]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (PLAIN + "0,1,1\n1,nan,1\n", 3, "not a whole number"),
        (PLAIN + "0,1,1\nnan,1,1\n", 3, "finite"),
        (PLAIN + "0,1,1\ninf,1,1\n", 3, "finite"),
        (PLAIN + "0,1,1\n-1,1,1\n", 3, "not negative"),
        (PLAIN + "0,1,1\n2,-5,1\n", 3, "input_tokens is -5"),
        (PLAIN + "0,0,1\n", 2, "input_tokens is 0"),
        (PLAIN + "0,1,0\n", 2, "output_tokens is 0"),
        (PLAIN + "0,1,1.5\n", 2, "not a whole number"),
        (PLAIN + "0,1,1\n5,1,1\n4,1,1\n", 4, "time goes back by 1 s"),
        (PLAIN + "0,1,1\n1,1\n", 3, "2 values where the header has 3"),
        (PLAIN + "0,,1\n", 2, "input_tokens is ''"),
        ("time,input_tokens\n0,1\n", 1, "fit no known trace"),
        ("", 1, "is empty"),
        (AZURE + "yesterday,1,1\n", 2, "not a date and a clock"),
        (AZURE + "2023-02-30 10:00:00,1,1\n", 2, "2023-02-30"),
        (AZURE + "2023-02-03 25:00:00,1,1\n", 2, "no such clock"),
        (BURST + "1,GPT-4,5,0,5,API log\n", 2, "Response tokens is 0"),
        ('{"timestamp": 0, "input_length": 5}\n', 1, "output_length is missing"),
        ('{"timestamp": NaN, "input_length": 5, "output_length": 1}\n', 1, "finite"),
        ('{"timestamp": 0, "input_length": true, "output_length": 1}\n', 1, "not a whole number"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 1}\n{"timest\n', 2, "no JSON object"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1, 2]}\n', 1, "2 hash_ids"),
    ],
)
def test_bad_rows(tmp_path, text, line, says):
    path = write(tmp_path, text)
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert error.value.line == line
    assert says in str(error.value) and f"{path}:{line}: " in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (PLAIN.encode(), "holds no requests"),
        (gzip.compress((PLAIN + "0,1,1\n" * 9999).encode())[:-20], "cannot be read to its end"),
        (b"\x1f\x8b" + b"x" * 50, "cannot be read to its end"),
        (PLAIN.encode() + b"\xff\xfe\n", "not UTF-8"),
    ],
)
def test_bad_files(tmp_path, content, says):
    with pytest.raises(TraceError, match=says):
        read_trace(write(tmp_path, content))
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "missing.csv")


def test_failed_requests_of_burstgpt_are_counted_when_left_out(tmp_path):
    path = write(tmp_path, BURST + "1,GPT-4,5,2,7,API log\n2,GPT-4,5,0,5,API log\n3,GPT-4,6,1,7,API log\n")
    trace = read_trace(path, skip_failed=True)
    assert (trace.rows, trace.skipped, len(trace.requests)) == (3, 1, 2)


def test_reading_stops_where_it_is_told(tmp_path):
    path = write(tmp_path, PLAIN + "".join(f"{i},1,1\n" for i in range(100)) + "broken\n")
    assert len(read_trace(path, limit=10).requests) == 10
    until = read_trace(path, until=20.0)
    assert len(until.requests) == until.rows == 20
    assert until.requests.arrival.max() == 19


def test_memory_grows_by_the_requests_kept_not_by_the_file(tmp_path):
    import tracemalloc

    path = tmp_path / "long.csv.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(PLAIN)
        for i in range(200_000):
            file.write(f"{i},100,{i % 7 + 1}\n")
    tracemalloc.start()
    assert len(read_trace(path, limit=1000).requests) == 1000
    few = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    assert len(read_trace(path).requests) == 200_000
    many = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert few < 1_000_000
    assert many < 200_000 * 24 * 2.5  # an array that grows is copied into a larger one


def test_the_published_traces(request):
    data = request.config.rootpath / "tests" / "data" / "traces"
    conv = read_trace(data / "azure_llm_2023_conv.csv").requests
    assert len(conv) == 19_366 and conv.arrival[-1] == pytest.approx(3502.0, abs=5)
    assert conv.input_tokens.mean() == pytest.approx(1155, abs=1) and np.median(conv.output_tokens) == 129
    code = read_trace(data / "azure_llm_2023_code.csv").requests
    gaps = np.diff(code.arrival)
    assert len(code) == 8_819 and gaps.std() / gaps.mean() == pytest.approx(13.15, abs=0.1)
