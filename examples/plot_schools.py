"""
Schools with posteriors
=======================

A Bayesian model does not say how good a school is. It gives thousands of draws of what
it could be: few pupils, wide posterior. To cluster schools by their posterior *means*
throws that away, and a small school is put into a group as firmly as a large one.

``Nodes.from_draws`` takes the posterior as ArviZ keeps it, with the dimensions
``chain`` and ``draw``: each school is a *node*, its draws are the *realizations*.
"""

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import probi

plt.style.use("probi.report.gallery")
INK = "#1f2733"
BRIGHT = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
# %%
# Ninety schools of three kinds, with 4 to 400 pupils who took a test in reading and in
# mathematics. What we see of a school are means of its pupils.
rng = np.random.default_rng(8)
KINDS = np.array([[-9.0, -5.0], [1.0, 10.0], [9.0, -4.0]])
kind = np.repeat([0, 1, 2], 30)
pupils = np.round(np.exp(rng.uniform(np.log(4), np.log(400), 90))).astype(int)
effect = KINDS[kind] + rng.normal(0, 1.5, (90, 2))
error = 20 / np.sqrt(pupils)  # pupils differ by 20 points
seen = effect + rng.normal(size=(90, 2)) * error[:, None]

# %%
# A model with normal effects, whose mean and scale are unknown as well, by Gibbs
# sampling: four chains of 500 draws. With PyMC, Stan or NumPyro this is one call, and
# the result of any of them goes into ``from_draws`` as it is.
N_CHAINS, N_DRAWS = 4, 500
theta = np.empty((N_CHAINS, N_DRAWS, 90, 2))
for chain in range(N_CHAINS):
    mean, scale = rng.normal(0, 10, 2), np.array([10.0, 10.0])
    for draw in range(-100, N_DRAWS):  # the first hundred are not kept
        precision = 1 / error[:, None] ** 2 + 1 / scale**2
        center = (seen / error[:, None] ** 2 + mean / scale**2) / precision
        now = rng.normal(center, precision**-0.5)
        mean = rng.normal(now.mean(axis=0), scale / np.sqrt(90))
        squares = ((now - mean) ** 2).sum(axis=0)
        scale = np.sqrt(squares / rng.chisquare(89, 2))
        if draw >= 0:
            theta[chain, draw] = now
posterior = xr.Dataset(
    {"theta": (("chain", "draw", "school", "subject"), theta)},
    coords={
        "school": [f"school {i}" for i in range(90)],
        "subject": ["reading", "mathematics"],
    },
)

# %%
# One line makes the nodes. Of the 2,000 draws of a school, a few hundred are kept that
# stand for all of them.
nodes = probi.Nodes.from_draws(posterior, node="school")
print(nodes)
result = probi.solve(nodes, n_clusters=3, random_state=0)

# %%
# How sure is the group of a school? ``memberships`` is the share of its draws that are
# nearest to each center. It tells which labels to trust.
sure = probi.memberships(nodes, result.centers).max(axis=1)
by_kind = np.array([np.bincount(kind[result.labels == c]).argmax() for c in range(3)])
right = by_kind[result.labels] == kind
for low, high in ((0, 0.6), (0.6, 0.9), (0.9, 1.01)):
    rows = (sure >= low) & (sure < high)
    print(
        f"membership {low:.0%} to {min(high, 1):.0%}: {rows.sum():2d} schools, "
        f"{right[rows].mean():.0%} in the group of their kind, "
        f"{np.median(pupils[rows]):.0f} pupils"
    )
print("representatives:", ", ".join(result.representatives.names))

# %%
# The picture
# -----------
# Left: draws are faint, medians solid, and a ring is a school whose membership is below
# 60 %. Right: it is the small schools that belong to no group for sure.
figure, (left, axis) = plt.subplots(1, 2, figsize=(7.4, 3.9), width_ratios=[1.15, 1])
medians, _ = probi.one_medians(nodes)
colors = np.array(BRIGHT)[result.labels]
some = rng.choice(nodes.n_realizations, 6000, replace=False)
owner = np.repeat(result.labels, np.diff(nodes.offsets))[some]
left.scatter(*nodes.points[some].T, s=2, c=np.array(BRIGHT)[owner], alpha=0.25, lw=0)
left.scatter(*medians.T, s=18, c=colors, edgecolors="white", linewidths=0.4)
doubtful = sure < 0.6
ring = {"s": 60, "facecolors": "none", "edgecolors": INK, "linewidths": 0.9}
left.scatter(*medians[doubtful].T, **ring)
disc = {"s": 110, "edgecolors": "white", "linewidths": 1.8, "zorder": 3}
left.scatter(*result.centers.T, c=BRIGHT[:3], **disc)
left.set(xlabel="effect in reading, points", ylabel="effect in mathematics, points")
left.set(xlim=(-24, 24), ylim=(-22, 24))
left.set_title(f"90 schools in 3 groups, {doubtful.sum()} of them in doubt")
axis.scatter(pupils, 100 * sure, s=18, c=colors, edgecolors="white", linewidths=0.4)
axis.scatter(pupils[~right], 100 * sure[~right], marker="x", s=40, color=INK, lw=1)
axis.axhline(60, color=INK, linewidth=0.8, linestyle="--")
axis.set(xscale="log", xlabel="pupils", ylabel="draws nearest to the own center, %")
axis.set_xticks([5, 20, 100, 400], ["5", "20", "100", "400"])
axis.grid(axis="y")
axis.set_title("A cross is a school in another group")
plt.show()
