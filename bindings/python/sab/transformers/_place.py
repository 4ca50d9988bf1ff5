"""The place in the epoch that a checkpoint of a trainer holds."""

from __future__ import annotations

import base64
import importlib
import json
import os
from typing import Any

transformers: Any = importlib.import_module("transformers")
if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (5, 3):
    raise ImportError(f"transformers {transformers.__version__}: must be at least 5.3")
_callbacks: Any = importlib.import_module("transformers.trainer_callback")


class PlaceInEpoch(transformers.TrainerCallback, _callbacks.ExportableState):  # type: ignore[misc]
    """Puts the place in the epoch into the trainer's state, which is saved with each checkpoint."""

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner  # of prepare(); None: a trainer restores the states of callbacks

    def state(self) -> dict[str, Any]:
        saved: bytes = b"" if self.owner is None else self.owner.saved()
        attributes: dict[str, Any] = {"place": base64.b64encode(saved).decode()}
        memory = None if self.owner is None else self.owner.memory
        if memory is not None:
            attributes["memory"] = memory.text()
        return {"args": {}, "attributes": attributes}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.owner is not None:
            self.owner.check_rows()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.owner is not None:
            state.epoch = self.owner.step_done()


def attributes_in(checkpoint: str) -> dict[str, Any]:
    """What a checkpoint holds of :class:`PlaceInEpoch`."""
    path = os.path.join(checkpoint, "trainer_state.json")
    with open(path, encoding="utf-8") as file:
        states: Any = json.load(file).get("stateful_callbacks", {})
    attributes: dict[str, Any] = states.get(PlaceInEpoch.__name__, {}).get("attributes", {})
    return attributes


def place_in(checkpoint: str) -> bytes:
    """The place that a checkpoint holds."""
    place = attributes_in(checkpoint).get("place")
    if not place:
        path = os.path.join(checkpoint, "trainer_state.json")
        raise ValueError(
            f"{path}: has no place in the epoch, since the trainer was not prepared; pass "
            "ignore_data_skip=True to begin the epoch anew"
        )
    return base64.b64decode(place)
