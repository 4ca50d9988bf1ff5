"""Runs a recipe with loaders that write down what they yield: logged.py RECIPE

Each line of the file that SEEN names is an epoch and the samples of a batch. After STOP_AFTER
batches of one process the process is killed.
"""

import json
import os
import pathlib
import runpy
import signal
import sys
from typing import Any

import sab.torch


class LoggedLoader(sab.torch.DataLoader):
    """Yields the same, and writes its samples down when the next batch is taken."""

    def __iter__(self) -> Any:
        stop_after = int(os.environ.get("STOP_AFTER", "0"))
        for count, data in enumerate(super().__iter__(), 1):
            yield data
            assert self.batch is not None
            line = json.dumps([self.epoch, self.batch.indices.tolist()]) + "\n"
            with open(os.environ["SEEN"], "a") as seen:
                seen.write(line)
            if count == stop_after:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    vars(sab.torch)["DataLoader"] = LoggedLoader
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
    runpy.run_path(sys.argv[1], run_name="__main__")
