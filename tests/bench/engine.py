"""Batches written by Ray, over Ray's own sort and write of the same rows: engine.py [ROWS].

The rows are int32 tokens of log-normal lengths in Parquet files. All read them, move each row once
and write Parquet. Takes turns; the least of three runs each. Needs ray[data].
"""

import logging
import os
import pathlib
import shutil
import sys
import tempfile
import time

import numpy as np
import pyarrow
import pyarrow.parquet

FILES, RUNS = 8, 3


def write_rows(folder, count):
    """Returns the bytes of the files."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for number in range(FILES):
        lengths = random.lognormal(5, 0.8, count // FILES).clip(1, 4000).astype(np.int32)
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
        tokens = random.integers(0, 50_000, offsets[-1], np.int32)
        columns = {
            "place": random.integers(0, 1 << 62, len(lengths)),
            "length": lengths,
            "tokens": pyarrow.ListArray.from_arrays(pyarrow.array(offsets), pyarrow.array(tokens)),
        }
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{number}.parquet")
    return sum(file.stat().st_size for file in folder.iterdir())


def main():
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    import ray

    import sab
    import sab.ray

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    ray.init("local", include_dashboard=False, logging_level="ERROR")
    logging.getLogger("ray.data").setLevel("ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        size = write_rows(folder / "rows", count)
        data = ray.data.read_parquet(str(folder / "rows"))
        histogram = sab.ray.histogram(data, "length")
        plan, packing = sab.plan(histogram, 16384), sab.Packing(histogram, 16384)

        def sort():
            data.sort("place").write_parquet(str(folder / "out"))

        def batches():
            sab.ray.write_batches(data, plan, folder / "out", size="length", world_size=8)

        def packs():
            sab.ray.write_batches(data, packing, folder / "out", size="length", world_size=8)

        seconds = {sort: [], batches: [], packs: []}
        for _ in range(RUNS):
            for function, spent in seconds.items():
                begin = time.perf_counter()
                function()
                spent.append(time.perf_counter() - begin)
                shutil.rmtree(folder / "out")
    own = min(seconds[sort])
    print(
        f"Ray {ray.__version__}, libsab {sab.__version__}, {count:,} rows, {size / 2**20:,.0f} MiB"
    )
    print(f"  sort and write_parquet   {own:7.2f} s")
    for name, function in (("plan", batches), ("packing", packs)):
        least = min(seconds[function])
        print(f"  write_batches, {name:9} {least:7.2f} s  ratio {least / own:.2f}")


if __name__ == "__main__":
    main()
