"""ELKI 0.7.1 (Debian's package elki): UK-means, CK-means, FDBSCAN and representative clustering."""

from typing import Any

import numpy as np

from benchmarks.peers import elki

REQUIRES = ["jpype1", "numpy"]
VERSION = "ELKI 0.7.1"
PACKAGE = "de.lmu.ifi.dbs.elki."
MAX_ITERATIONS = 100
N_WORLDS, N_REPRESENTATIVES = 20, 5
# Neighbors that make an object the core of a cluster, as for HDBSCAN; draws per object; least probability to be near.
MIN_POINTS, N_DRAWS, THRESHOLD = 5, 5, 0.5


def start() -> None:
    """Start Java once."""
    import jpype

    folder = elki.jars()
    if folder is None:
        raise ValueError("ELKI or Java is not installed")
    if not jpype.isJVMStarted():
        jpype.startJVM("-Xmx2g", "-XX:ActiveProcessorCount=1", classpath=[f"{folder}/*"])


def java(name: str) -> Any:
    """A class of ELKI."""
    import jpype

    return jpype.JClass(PACKAGE + name)


def algorithm(name: str) -> Any:
    """A clustering algorithm of ELKI, or a part of one."""
    return java(f"algorithm.clustering.{name}")


class Database:
    """Objects in ELKI: always present, with weighted realizations."""

    def __init__(self, objects: Any) -> None:
        import jpype

        start()
        self.objects = objects
        vector, made = java("data.DoubleVector"), jpype.JClass("java.util.ArrayList")()
        kind = java("data.uncertain.WeightedDiscreteUncertainObject")
        vectors = [vector(jpype.JArray.of(row)) for row in np.ascontiguousarray(objects.points, np.float64)]
        for begin, end in zip(objects.offsets[:-1], objects.offsets[1:], strict=True):
            # Its sum must not exceed 1, not even by rounding.
            shares = objects.shares[begin:end] * (1.0 - 1e-12)
            made.add(kind(jpype.JArray(vector)(vectors[begin:end]), jpype.JArray.of(shares)))
        field = java("data.type.VectorFieldTypeInformation")(kind.FACTORY, objects.points.shape[1])
        bundle = java("datasource.bundle.MultipleObjectsBundle").makeSimple(field, made)
        self.database = java("database.StaticArrayDatabase")(
            java("datasource.MultipleObjectsBundleDatabaseConnection")(bundle), None
        )
        self.database.initialize()

    def labels(self, clustering: Any) -> Any:
        """Cluster of each object, -1 for noise."""
        ids = self.database.getRelation(java("data.type.TypeUtil").DBID).iterDBIDs()
        first, labels = ids.internalGetIndex(), np.full(len(self.objects), -1)
        for number, cluster in enumerate(clustering.getAllClusters()):
            member = cluster.getIDs().iter()
            while member.valid():
                labels[member.internalGetIndex() - first] = -1 if cluster.isNoise() else number
                member.advance()
        return labels


prepare = Database


def _random(seed: int) -> Any:
    return java("math.random.RandomFactory")(seed + 1)


def _squared() -> Any:
    return java("distance.distancefunction.minkowski.SquaredEuclideanDistanceFunction").STATIC


def ukmeans(database: Database, k: int, seed: int) -> Any:
    """Starts at objects drawn at random: it has no other."""
    return database.labels(algorithm("uncertain.UKMeans")(k, MAX_ITERATIONS, _random(seed)).run(database.database))


def _initial(seed: int) -> Any:
    return algorithm("kmeans.initialization.KMeansPlusPlusInitialMeans")(_random(seed))


def ckmeans(database: Database, k: int, seed: int) -> Any:
    """k-means++ starts."""
    model = algorithm("uncertain.CKMeans")(_squared(), k, MAX_ITERATIONS, _initial(seed))
    return database.labels(model.run(database.database))


def fdbscan(database: Database, k: int, seed: int) -> Any:
    """Epsilon is found in the data; it chooses the number of clusters."""
    model = algorithm("uncertain.FDBSCAN")(epsilon(database.objects), N_DRAWS, THRESHOLD, _random(seed), MIN_POINTS)
    return database.labels(model.run(database.database))


def epsilon(objects: Any) -> float:
    """Median distance of a draw of an object to draws of its nearest neighbors by means."""
    means = objects.means
    norms = (means**2).sum(axis=1)
    near = np.argsort(norms[:, None] + norms - 2.0 * means @ means.T, axis=1, kind="stable")[:, 1 : MIN_POINTS + 1]
    rng = np.random.default_rng(0)
    drawn = objects.points[objects.offsets[:-1] + rng.integers(np.diff(objects.offsets))]
    return float(np.median(np.linalg.norm(drawn[:, None] - drawn[near], axis=2)))


def representative(database: Database, k: int, seed: int) -> Any:
    """The most representative of the k-means clusterings of some possible worlds."""
    similarity = java("distance.similarityfunction.cluster.ClusteringAdjustedRandIndexSimilarityFunction").STATIC
    initial = algorithm("kmeans.initialization.PAMInitialMeans")()
    medoids = algorithm("kmeans.KMedoidsPAM")(similarity, N_REPRESENTATIVES, 0, initial)
    kmeans = algorithm("kmeans.KMeansLloyd")(_squared(), k, MAX_ITERATIONS, _initial(seed))
    model = algorithm("uncertain.RepresentativeUncertainClustering")(
        similarity, medoids, kmeans, N_WORLDS, _random(seed), 0.95, False
    )
    model.run(database.database)
    return database.labels(_first_representative(database.database))


def _first_representative(database: Any) -> Any:
    """What was found is kept in a tree below the database, the most representative first."""
    tree, clusterings = database.getHierarchy(), java("data.Clustering")

    def below(result: Any) -> Any:
        child = tree.iterChildren(result)
        while child.valid():
            yield child.get()
            child.advance()

    for relation in below(database):
        for result in below(relation):
            if str(result.getLongName()) == "Representants":
                return next(made for sample in below(result) for made in below(sample) if isinstance(made, clusterings))
    raise ValueError("no representative clustering")


SYSTEMS = {
    "ELKI UK-means": ukmeans,
    "ELKI CK-means": ckmeans,
    "ELKI FDBSCAN": fdbscan,
    "ELKI representative": representative,
}
