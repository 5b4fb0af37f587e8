"""Coresets: few weighted nodes that stand for many. A new preset is one class in a module, and one line here."""

from probi.coreset.importance import ImportanceSampling, Preset
from probi.coreset.lss import GuaranteedSampling
from probi.coreset.paper import RingSampling

# By their public names.
PRESETS: dict[str, type[Preset]] = {
    "default": ImportanceSampling,
    "paper": RingSampling,
    "theory": GuaranteedSampling,
}
