"""k-median clustering of uncertain data: objects that are distributions over points, not points.

Where to begin, with an array ``X`` of shape (n, d), or (n, m, d) for m readings of each of n objects:

    result = probi.solve(X, n_clusters=8, random_state=0)     # centers, labels, cost; probi.PLloyd is its estimator
    nodes = probi.Nodes.from_table(frame, "long", id="name")  # other ways to make nodes: Nodes.from_...
    summary = probi.Summary(n_clusters=8); summary.update(X)  # a stream, in memory that does not grow; probi.PROBI
    probi.solve(summary, n_clusters=8)                        # what its centers cost, with a standard error

Modules: ``probi.io`` (files), ``probi.geo`` (longitude and latitude), ``probi.impute`` (missing values),
``probi.report`` (pictures and a report), ``probi.xarray`` (labeled arrays; ``import probi.xarray`` adds ``ds.probi``),
``probi.engines`` (Dask and Spark). Each name has a help page of its own: ``help(probi.Nodes)``.
"""

from probi._lazy import lazy

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from probi.choosing import KChoice, choose_k
    from probi.errors import InputError, InputWarning, MissingExtraError, ProbiError, SolverWarning
    from probi.estimators import PROBI, PLloyd
    from probi.medians import one_medians
    from probi.medoids import Representatives, representatives
    from probi.nodes import Nodes
    from probi.objective import assign, expected_cost, expected_distances, memberships
    from probi.solver.result import Clusters, Evaluation, Result
    from probi.solver.solve import solve
    from probi.summary import Summary
    from probi.summary.window import Window
    from probi.thinning import ThinningBounds
    from probi.worlds import Outcome, Stability, stability

__version__ = "1.0.0"
__all__ = [
    "PROBI",
    "Clusters",
    "Evaluation",
    "InputError",
    "InputWarning",
    "KChoice",
    "MissingExtraError",
    "Nodes",
    "Outcome",
    "PLloyd",
    "ProbiError",
    "Representatives",
    "Result",
    "SolverWarning",
    "Stability",
    "Summary",
    "ThinningBounds",
    "Window",
    "assign",
    "choose_k",
    "expected_cost",
    "expected_distances",
    "memberships",
    "one_medians",
    "representatives",
    "solve",
    "stability",
]

# NumPy takes a tenth of a second to import and scikit-learn one: `probi --help` waits for neither, and `import probi`
# waits for what is used. Numba is imported when the first kernel is called. `probi.geo` is there without an import of
# its own.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "probi": ("__version__",),
        "probi.choosing": ("KChoice", "choose_k"),
        "probi.errors": ("InputError", "InputWarning", "MissingExtraError", "ProbiError", "SolverWarning"),
        "probi.estimators": ("PROBI", "PLloyd"),
        "probi.medians": ("one_medians",),
        "probi.medoids": ("Representatives", "representatives"),
        "probi.nodes": ("Nodes",),
        "probi.objective": ("assign", "expected_cost", "expected_distances", "memberships"),
        "probi.solver.result": ("Clusters", "Evaluation", "Result"),
        "probi.solver.solve": ("solve",),
        "probi.summary": ("Summary", "Window"),
        "probi.thinning": ("ThinningBounds",),
        "probi.worlds": ("Outcome", "Stability", "stability"),
    },
    modules=("engines", "geo", "impute", "io", "report"),
)
