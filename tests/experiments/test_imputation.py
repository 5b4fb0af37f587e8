"""What the page on missing values says is what was measured."""

from experiments import imputation
from experiments.records import Records


def test_the_page_says_where_nodes_are_lower_and_what_is_not_measured(tmp_path):
    records = Records(tmp_path / "imputation.csv", imputation.KEYS, imputation.VALUES)
    for seed, off in ((0, -0.1), (1, 0.1)):
        values = {"means": 0.5, "one": 0.7, "nodes": 0.6 + off, "means_k_means": 0.5, "one_k_means": 0.6 + off}
        records.add(data="iris", share=0.3, seed=seed, seconds=1.0, complete=0.8, **values)
    records.add(data="wine", share=0.1, seed=0, seconds=1.0, complete=0.8, **dict.fromkeys(imputation.WAYS, 0.5))
    text = " ".join(imputation.imputation_page(tmp_path).split())
    assert "| iris | 30% | 2 | 0.800 | 0.500 (0.100) | 0.700 (0.100) | 0.600 | 0.500 (0.100) | 0.600 (0.000) |" in text
    assert "1 of 1 rows against column means; 0 of 1 rows against one imputation (lower: iris at 30% by 0.100)" in text
    assert "blobs at 50%" in text.partition("Not measured yet: ")[2]
    assert "iris at 30%" not in text.partition("Not measured yet: ")[2]
    assert "wine at 10%" in text.partition("Not measured yet: ")[2]
