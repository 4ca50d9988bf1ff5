"""``asym.annotated_module``: modules that say what the dimensions of their inputs and
outputs mean.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, cast

import torch as _loaded_torch

from sab.compat.asym.data import Data
from sab.compat.asym.shape_signature import (
    ADim,
    BDim,
    CDim,
    Dim,
    LDim,
    MDim,
    PreBDim,
    PreCDim,
    PreLDim,
    PreMDim,
    PreShapeSignature,
    PreShapeSignatureData,
    ShapeSignature,
    ShapeSignatureData,
)

__all__ = ["AnnotatedModule", "AnnotationError", "PreDimConversionError", "ShapeConflictError"]

torch: Any = _loaded_torch


class _Message(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class ShapeConflictError(_Message):
    """Data are not as a module's annotation says."""


class PreDimConversionError(_Message):
    """An output has a dimension that no input has."""


class AnnotationError(_Message):
    """A module's annotation is missing or wrong."""


class _Match:
    """What the dimensions of annotations stand for, pair by pair of annotation and signature."""

    def __init__(self) -> None:
        self.lengths: dict[str, str] = {}
        self.models: dict[str, str] = {}
        self.abbreviated: dict[str, list[Dim]] = {}

    def take(self, presig: PreShapeSignature, shapesig: ShapeSignature) -> None:
        at = presig.find_adim()
        ahead = 0  # by which the places in the signature are ahead of those in the annotation
        for i, predim in enumerate(presig.list):
            if i == at:
                ahead = self._take_abbreviated(presig, shapesig, i) - 1
                continue
            if i + ahead >= len(shapesig):
                raise ShapeConflictError(f"{shapesig} is too short compared to {presig}")
            self._take_one(
                predim, shapesig.list[i + ahead], f"{presig}[{i}] and {shapesig}[{i + ahead}]"
            )

    def _take_abbreviated(self, presig: PreShapeSignature, shapesig: ShapeSignature, i: int) -> int:
        label: str = getattr(presig.list[i], "label")  # noqa: B009  # it is a PreADim
        known = self.abbreviated.get(label)
        if known is None:
            count = len(shapesig) - len(presig) + 1
            if count < 0 or (i >= len(shapesig) and count > 0):
                raise ShapeConflictError(f"{shapesig} is too short compared to {presig}")
            self.abbreviated[label] = shapesig.list[i : i + count]
            return count
        if shapesig.list[i : i + len(known)] != known:
            raise ShapeConflictError(
                f"The part of {shapesig} that {presig} abbreviates as .{label}. is not "
                f"{ShapeSignature(known)}, for which it stood before"
            )
        return len(known)

    def _take_one(self, predim: Any, dim: Any, where: str) -> None:
        kind = cast(Any, type(predim))
        kinds: dict[Any, Any] = {PreBDim: BDim, PreLDim: LDim, PreMDim: MDim, PreCDim: CDim}
        if kind not in kinds:
            raise AnnotationError(f"The {predim} in {where} is strange.")
        if type(dim) is not kinds[kind] or (kind is PreCDim and predim.num != dim.num):
            raise ShapeConflictError(where)
        if kind is PreLDim and self.lengths.setdefault(predim.label, dim.label) != dim.label:
            raise ShapeConflictError(
                f"{where} - {predim} was previously resolved to {LDim(self.lengths[predim.label])}"
            )
        if kind is PreMDim:
            self.models.setdefault(predim.label, dim.label)  # which may differ, as in asym

    def converted(self, presig: PreShapeSignature) -> ShapeSignature:
        dims: list[Dim] = []
        predim: Any
        for predim in presig.list:
            if isinstance(predim, PreBDim):
                dims.append(BDim())
            elif isinstance(predim, PreLDim):
                if predim.label not in self.lengths:
                    raise PreDimConversionError(
                        f"{predim} of the output is in no input: a module cannot introduce lengths"
                    )
                dims.append(LDim(self.lengths[predim.label]))
            elif isinstance(predim, PreMDim):
                dims.append(MDim(self.models.get(predim.label, predim.label)))
            elif isinstance(predim, PreCDim):
                dims.append(CDim(predim.num))
            elif isinstance(predim, ADim):
                if predim.label not in self.abbreviated:
                    raise PreDimConversionError(
                        f"The abbreviated dimension {predim} of the output is in no input"
                    )
                dims += self.abbreviated[predim.label]
            else:
                raise AnnotationError(f"The {predim} in {presig} is strange.")
        return ShapeSignature(dims)


class AnnotatedModule(torch.nn.Module, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of modules that :meth:`sab.compat.asym.data_collection.DataCollection.apply` runs:
    override :meth:`forward` and the three below.
    """

    @abstractmethod
    def get_mask_hint(self) -> Any:
        """None: ``forward`` takes no mask; a list of lengths of the annotation: one of these
        dimensions after the batch; ``"copy"``: masks nested and shaped as the input.
        """

    @abstractmethod
    def get_input_annot(self) -> Any:
        """The dimensions of the input, such as ``"(b, l_seq, .., m_1)"``, or dictionaries of
        such.
        """

    @abstractmethod
    def get_output_annot(self) -> Any:
        """Those of the output."""

    def get_output_shapesig_data_and_mask_hint(
        self,
        input_shapesig_data: ShapeSignatureData,
        input_key_conv: dict[str, Any] | None = None,
        output_key_conv: dict[str, Any] | None = None,
    ) -> tuple[ShapeSignatureData, Any]:
        """The signatures of the output for an input of some signatures, and the mask hint in the
        input's lengths.

        Raises:
            AnnotationError: an annotation is missing.
            ShapeConflictError: the input is not as the annotation says.
            PreDimConversionError: the output has a dimension that the input has not.
        """
        annotations = {"input": self.get_input_annot(), "output": self.get_output_annot()}
        for what, annotation in annotations.items():
            if annotation is None:
                raise AnnotationError(
                    f"It seems get_{what}_annot() is not implemented for {type(self)}"
                )
        inputs, outputs = (
            PreShapeSignatureData.parse(annotation, come_from=what)
            for what, annotation in annotations.items()
        )
        given = (
            input_shapesig_data
            if input_key_conv is None
            else input_shapesig_data.keys_converted(input_key_conv)
        )
        match = _Match()
        for presig, shapesig in Data.leaf_zip_left(inputs, given):
            match.take(presig, shapesig)
        made = ShapeSignatureData.map(match.converted, outputs)
        if output_key_conv is not None:
            made = made.keys_converted(output_key_conv)
        hint = self.get_mask_hint()
        if issubclass(type(hint), list):
            unknown = [label for label in hint if label not in match.lengths]
            if unknown:
                raise AnnotationError(
                    f"mask hint {hint!r} of {type(self)}: the input has no length {unknown[0]!r}"
                )
            hint = [match.lengths[label] for label in hint]
        elif hint is not None and hint != "copy":
            raise AnnotationError(f"Invalid mask_hint for {type(self)}: {hint!r}")
        return made, hint
