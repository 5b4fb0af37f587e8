"""The presets of a summary, by their names."""

from probi.coreset.importance import ImportanceSampling
from probi.coreset.lss import Guaranteed
from probi.coreset.paper import RingSampling
from probi.coreset.preset import Preset

PRESETS: dict[str, type[Preset]] = {preset.name: preset for preset in (ImportanceSampling, RingSampling, Guaranteed)}
