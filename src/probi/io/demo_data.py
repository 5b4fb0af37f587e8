"""The example: ensemble forecasts of hurricane Otis."""

from importlib.resources import files

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# Members of the GEFS ensemble: AC00, AP01 to AP30.
MEMBERS = r"^(AC00|AP\d\d)$"
N_MEMBERS = 31


def otis_table() -> pa.Table:
    """Where each member of the ensemble sees the storm, as a long table.

    A node is the storm at one hour (tau) of one forecast (init). Each member is one realization with probability 1/31;
    a member that has lost the storm is missing probability.
    """
    path = files("probi") / "data" / "hurricane_otis_adeck.parquet"
    with path.open("rb") as file:
        table = pq.read_table(file, columns=["init", "tau", "tech", "lon", "lat"])
    table = table.set_column(2, "tech", table["tech"].cast(pa.string()))
    table = table.filter(pc.match_substring_regex(table["tech"], MEMBERS)).filter(pc.field("tau") >= 0).drop_null()
    # Up to three rows per member, for three wind radii, with the same position.
    table = table.group_by(["init", "tau", "tech"], use_threads=False).aggregate([("lon", "first"), ("lat", "first")])
    table = table.rename_columns(["init", "tau", "member", "lon", "lat"])
    table = table.sort_by([("init", "ascending"), ("tau", "ascending"), ("member", "ascending")])
    return table.append_column("probability", pa.array(np.full(len(table), 1.0 / N_MEMBERS)))
