"""scikit-learn: k-means of means and of realizations, Gaussian mixtures, densities."""

from typing import Any

REQUIRES = ["scikit-learn"]
VERSION = "scikit-learn"


def kmeans_of_means(objects: Any, k: int, seed: int) -> Any:
    """UK-means of squared distances is k-means of the means (Lee, Kao and Cheng, 2007)."""
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=10, random_state=seed).fit_predict(objects.means)


def kmeans_of_realizations(objects: Any, k: int, seed: int) -> Any:
    """An object gets the label of most of its realizations."""
    from sklearn.cluster import KMeans

    model = KMeans(k, n_init=10, random_state=seed)
    return objects.vote(model.fit_predict(objects.points, sample_weight=objects.shares))


def minibatch_of_realizations(objects: Any, k: int, seed: int) -> Any:
    """An object gets the label of most of its realizations."""
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(k, n_init=10, random_state=seed)
    return objects.vote(model.fit_predict(objects.points, sample_weight=objects.shares))


def gaussian_mixture(objects: Any, k: int, seed: int) -> Any:
    """Full covariances, as it comes."""
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(k, n_init=3, random_state=seed).fit(objects.means)
    return model.predict(objects.means), {"posterior": model.predict_proba(objects.means).max(axis=1)}


def hdbscan(objects: Any, k: int, seed: int) -> Any:
    """As it comes; it chooses the number of clusters."""
    from sklearn.cluster import HDBSCAN

    return HDBSCAN(copy=True).fit_predict(objects.means)


SYSTEMS = {
    "k-means of means": kmeans_of_means,
    "k-means of realizations": kmeans_of_realizations,
    "MiniBatchKMeans of realizations": minibatch_of_realizations,
    "GaussianMixture of means": gaussian_mixture,
    "HDBSCAN of means": hdbscan,
}
