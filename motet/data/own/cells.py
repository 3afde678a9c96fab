"""The cells of a column: from Arrow's arrays to text or numbers."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from motet.data.values import FALSE, LARGEST, MISSING, TRUE
from motet.errors import MotetError, shown

Kind = Literal["number", "boolean", "category"]


def as_arrow(values: npt.NDArray[np.bool_]) -> Any:
    """Truths as Arrow takes them."""
    from motet.data.own.arrow import pa

    return pa.array(values)


def are_missing(texts: Any) -> npt.NDArray[np.bool_]:
    """Which of these texts stand for a value that is not there."""
    from motet.data.own.arrow import compute, pa

    listed = compute.is_in(compute.utf8_trim_whitespace(texts), value_set=pa.array(MISSING))
    found: npt.NDArray[np.bool_] = compute.or_(compute.is_null(texts), listed).to_numpy(zero_copy_only=False)
    return found


def strings(column: Any, name: str, where: str) -> Any:
    """As text, whatever they are; what is missing stays so."""
    from motet.data.own.arrow import compute, pa

    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return compute.cast(column, pa.string())
    except (pa.ArrowException, ValueError, NotImplementedError) as error:
        raise MotetError(
            f"{where}: column {shown(name)} holds {str(column.type)[:40]}; accepted: text, numbers or truths"
        ) from error


def fits(texts: Any, kind: Kind) -> bool:
    """Whether all of these texts are such as a file of CSV has for numbers, or for truths."""
    from motet.data.own.arrow import compute, pa

    bare = compute.utf8_trim_whitespace(texts)
    if kind == "boolean":
        return bool(
            compute.all(compute.is_in(bare.drop_null(), value_set=pa.array([*TRUE, *FALSE])), min_count=0).as_py()
        )
    try:
        compute.cast(bare, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def numbers(column: Any, name: str, kind: Kind, where: str) -> npt.NDArray[np.float64]:
    """As numbers, with NaN for what is missing."""
    from motet.data.own.arrow import compute, pa

    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if kind == "boolean" and not pa.types.is_boolean(column.type):
            column = compute.cast(column, pa.bool_())
        if pa.types.is_boolean(column.type):
            column = compute.cast(column, pa.int8())
        values: npt.NDArray[np.float64] = compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowException, ValueError, NotImplementedError) as error:
        raise MotetError(
            f"{where}: column {shown(name)} holds {str(column.type)[:40]}; accepted: {kind}s, as planned"
        ) from error
    wrong = values[np.abs(values) > LARGEST]
    if len(wrong):
        raise MotetError(
            f"{where}: column {shown(name)} holds {wrong[0]:g}; accepted: numbers of at most {LARGEST:g}, or nothing "
            f"where one is missing"
        )
    return values
