"""Labels of models: resolve what a user passes as ``models``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrib_ds.attribution.models.model import Model
from attrib_ds.attribution.models.named import model_named
from attrib_ds.attribution.models.rules import CustomWeights
from attrib_ds.attribution.rules.weights import has_invalid_weight
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from attrib_ds.attribution.paths.paths import Paths

#: Models, or names of models with default parameters; a mapping gives labels of its own.
Models = Model | str | Sequence[Model | str] | Mapping[str, Model | str]


def models_by_label(models: Models) -> dict[str, Model]:
    """Return models by label: the model's name, or the key of the mapping.

    Raises
    ------
    InvalidRequest
        If there are no models, one is not a model, or a label occurs twice.
    """
    if isinstance(models, Mapping):
        pairs = list(models.items())
    else:
        given: Any = models
        is_several = isinstance(given, Iterable) and not isinstance(given, str | bytes)
        several = list(given) if is_several else [given]
        pairs = [(item if isinstance(item, str) else getattr(item, "name", ""), item) for item in several]
    if not pairs:
        raise InvalidRequest("models is empty; allowed: at least one model", field="models")
    found: dict[str, Model] = {}
    for label, item in pairs:
        model = model_named(item) if isinstance(item, str) else item
        if not isinstance(model, Model):
            raise InvalidRequest(
                f"models: {item!r} is not a model; allowed: a model such as Linear() or a name such as "
                "'linear'",
                field="models",
            )
        if str(label) in found:
            raise InvalidRequest(
                f"models: {label!r} occurs twice; pass a mapping to label models of the same kind",
                field="models",
            )
        found[str(label)] = model
    return found


def check_custom_weights(paths: Paths, models: dict[str, Model]) -> None:
    """Refuse custom weights that are missing, negative or not finite.

    Raises
    ------
    InvalidRequest
        If a model gives such a weight, or its function fails.
    """
    for model in models.values():
        if not isinstance(model, CustomWeights):
            continue
        expression = has_invalid_weight(paths, model)
        try:
            is_invalid = expression.to_pyarrow().as_py()
        except Exception as error:
            raise InvalidRequest(
                f"models: {model.name} cannot be computed: {error}", field="models"
            ) from error
        if is_invalid:
            raise InvalidRequest(
                f"models: {model.name} returns a weight that is missing, negative or not finite; allowed: "
                "0 or more",
                field="models",
            )
