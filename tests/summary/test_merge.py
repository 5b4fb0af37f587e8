"""Summaries of parts of the data become one of all of it."""

import copy
import functools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from samples import certain, interrupted_by, summarized, uncertain
from strategies import examples

from probi import InputError, Nodes, Summary, expected_cost, solve

PRESETS = ["default", "paper"]
KINDS = {"certain": certain, "uncertain": uncertain}
CENTERS = np.array([[0.0, 0.0], [45.0, 40.0], [90.0, 80.0]])

# Nodes of 16 shards: some fill several leaves (of 64 nodes, the paper's of 16), some none, and one has read nothing.
LENGTHS = {
    "default": [700, 8, 0, 63, 64, 65, 1, 300, 130, 5, 512, 40, 20, 100, 257, 9],
    "paper": [175, 8, 0, 15, 16, 17, 1, 75, 33, 5, 128, 10, 5, 25, 65, 9],
}


def shards(preset="default", kind=uncertain, lengths=None, **options):
    """Summaries of parts of the data, and all of it."""
    lengths = lengths or LENGTHS[preset]
    parts = [kind(n, seed=100 + number) for number, n in enumerate(lengths)]
    summaries = [copy.copy(shard(preset, kind, n, number, **options)) for number, n in enumerate(lengths)]
    return summaries, Nodes.concat([part for part in parts if len(part)])


@functools.cache
def shard(preset, kind, n, number, **options):
    """One of them, which nobody changes."""
    return summarized(kind(n, seed=100 + number), preset=preset, shard=number, **options)


def merged(summaries):
    """All of them in one, which is a new one."""
    first, *others = summaries
    whole = copy.copy(first)
    for other in others:
        assert whole.merge(other) is whole
    return whole


def merged_as_a_tree(summaries):
    """Neighbours first, then their neighbours."""
    while len(summaries) > 1:
        summaries = [merged(summaries[i : i + 2]) for i in range(0, len(summaries), 2)]
    return summaries[0]


def keys(summary):
    return [tuple(stream.key) for stream in summary._streams]


# -- the order --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_the_order_of_merges_does_not_matter(preset, kind):
    parts, whole = shards(preset, KINDS[kind])
    shuffled = [parts[i] for i in np.random.default_rng(0).permutation(16)]
    found = [merged(parts), merged(parts[::-1]), merged_as_a_tree(shuffled)]
    assert len({summary.to_bytes() for summary in found}) == 1
    assert found[0].n_nodes == len(whole)
    assert all(summary.coreset() == found[0].coreset() for summary in found)
    assert all(summary.evaluate(CENTERS) == found[0].evaluate(CENTERS) for summary in found)


FEW, _ = shards(lengths=[70, 3, 130, 9, 64, 20, 1, 40, 10])
FEW_MERGED = merged(FEW).to_bytes()


@pytest.mark.slow
@examples(25)
@given(st.permutations(range(len(FEW))), st.data())
def test_any_way_to_merge_gives_the_same_bytes(order, data):
    waiting = [FEW[i] for i in order]
    while len(waiting) > 1:
        at = data.draw(st.integers(0, len(waiting) - 2))
        waiting[at : at + 2] = [merged(waiting[at : at + 2])]
    assert waiting[0].to_bytes() == FEW_MERGED


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_the_order_of_dtypes_does_not_matter(preset, kind):
    dtypes = [np.float64 if number == 8 else np.float32 for number in range(9)]
    parts = [
        summarized(KINDS[kind](40, dtype=dtype, seed=number), preset=preset, shard=number)
        for number, dtype in enumerate(dtypes)
    ]
    found = [merged(parts), merged(parts[::-1]), merged([parts[0], parts[8], *parts[1:8]])]
    assert {summary.dtype for summary in found} == {np.dtype(np.float64)}
    assert len({summary.to_bytes() for summary in found}) == 1


def test_two_seeds_may_have_the_same_shard_numbers():
    first, second = summarized(certain(100), random_state=1), summarized(certain(200, seed=1), random_state=2)
    assert merged([first, second]).to_bytes() == merged([second, first]).to_bytes()
    assert merged([first, second]).n_nodes == 300


@pytest.mark.slow
def test_groups_of_neighbours_become_one_block():
    parts, _ = shards()
    assert keys(merged(parts[:3])) == [(number, 0, 0, 0) for number in range(3)]
    assert keys(merged(parts[:4])) == [(0, 1, 0, 0)]
    assert keys(merged(parts[:8])) == [(0, 1, 0, 0), (1, 1, 0, 0)]
    assert keys(merged(parts)) == [(0, 2, 0, 0)]
    parts, _ = shards("paper")
    assert keys(merged(parts)) == [(0, 4, 0, 0)]


# -- what the merged summary says -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n_parts", [2, 7, 8, 11, 16])
@pytest.mark.parametrize("preset", PRESETS)
def test_counters_are_sums(preset, n_parts):
    parts, _ = shards(preset)
    parts = parts[:n_parts]
    whole = merged(parts)
    assert whole.n_nodes == sum(part.n_nodes for part in parts)
    for name in ("mass", "spread_cost", "lower_bound"):
        assert_allclose(getattr(whole, name), sum(getattr(part, name) for part in parts), rtol=1e-12)
    assert_allclose(whole.coreset().mass.sum(), whole.mass, rtol=1e-9)
    if preset == "default":
        assert len(whole.coreset()) == 8


@pytest.mark.slow
@pytest.mark.parametrize("n_each", [30, 500])
def test_costs_are_as_near_to_the_truth_as_those_of_one_long_stream(n_each):
    deviations = []
    for number in range(4):
        parts, data = shards(lengths=[n_each] * 8, random_state=number)
        cost, error = merged(parts).evaluate(CENTERS)
        truth = expected_cost(data, CENTERS)
        if n_each == 30:  # all nodes are in the audit sample
            assert error == 0.0
            assert_allclose(cost, truth, rtol=1e-12)
        else:
            alone = summarized(data, random_state=number).evaluate(CENTERS)
            assert 0.0 < error < 0.03 * cost
            assert_allclose(error, alone.standard_error, rtol=0.25)
            deviations.append((cost - truth) / error)
    assert np.abs(deviations).max(initial=0.0) < 4.0


def test_few_nodes_are_still_kept_whole():
    some = uncertain(8)
    whole = merged([summarized(some[:3], shard=0), summarized(some[3:4], shard=1), summarized(some[4:], shard=2)])
    assert whole.coreset() == some
    assert whole.evaluate(CENTERS).standard_error == 0.0
    assert_allclose(whole.evaluate(CENTERS).cost, expected_cost(some, CENTERS), rtol=1e-12)


def test_a_block_of_few_nodes_keeps_them_whole():
    some = uncertain(4)
    whole = merged([summarized(some[i : i + 1], shard=i) for i in range(4)])
    assert keys(whole) == [(0, 1, 0, 0)]
    assert whole.coreset() == some
    assert_allclose(tuple(whole.evaluate(CENTERS)), (expected_cost(some, CENTERS), 0.0), rtol=1e-12)


def test_a_merged_summary_is_solved_nearly_as_well_as_all_the_data():
    parts, data = shards(lengths=[300] * 10, n_clusters=5, size=100)
    found = solve(merged(parts), 5, random_state=0)
    assert expected_cost(data, found.centers) < 1.05 * solve(data, 5, random_state=0).cost


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_memory_does_not_grow_with_the_number_of_shards(preset):
    n_parts = {"default": 64, "paper": 16}[preset]
    parts, _ = shards(preset, certain, lengths=[40] * n_parts)
    whole = copy.copy(parts[0])
    most = 0
    for part in parts[1:]:
        whole.merge(part)
        most = max(most, whole.n_retained)
    assert whole.n_nodes == n_parts * 40
    assert len(whole._streams) == 1
    if preset == "default":
        assert whole.n_retained == 8
        # Seven shards with their buffers, and seven blocks.
        assert most <= 7 * 40 + 7 * 8
    else:
        assert most <= 3 * 40


@pytest.mark.slow
def test_a_merge_takes_as_long_after_many_shards_with_gaps():
    """All streams were compared with each other, and sorted, at each merge."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        lines += 1
        return trace

    merged, counts = Summary(2, size=8, random_state=0), []
    for number in range(1, 500):
        part = Summary(2, size=8, random_state=0, shard=17 * number)
        part.update([[float(number)]])
        if number not in (20, 499):
            merged.merge(part)
            continue
        lines = 0
        interrupted_by(trace, functools.partial(merged.merge, part))
        counts.append(lines)
    assert merged.n_nodes == 499
    assert counts[1] < 1.5 * counts[0]


def test_the_other_summary_stays_as_it_was():
    parts, _ = shards()
    before = [part.to_bytes() for part in parts]
    whole = merged(parts)
    whole.update(certain(500))
    whole.scale(0.5)
    assert [part.to_bytes() for part in parts] == before
    parts[1].update(certain(500))
    assert parts[1].n_nodes == 508
    assert whole.to_bytes() == whole.to_bytes()


def test_what_was_found_before_is_forgotten():
    first, second = summarized(uncertain(100)), summarized(uncertain(100, seed=1), shard=1)
    before = first.mass, first.coreset(), first.evaluate(CENTERS).cost
    first.merge(second)
    assert_allclose(first.mass, before[0] + second.mass, rtol=1e-12)
    assert first.coreset() != before[1]
    assert first.evaluate(CENTERS).cost > before[2]


# -- empty summaries --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_empty_summaries_add_nothing(preset):
    some = uncertain(200)
    full, nothing = summarized(some, preset=preset), Summary(2, 8, preset, random_state=0, shard=1)
    for whole in (merged([full, nothing]), merged([nothing, full])):
        assert whole.n_nodes == 200
        assert whole.mass == full.mass
        assert whole.dtype == np.float64
        assert_allclose(whole.coreset().mass.sum(), full.mass, rtol=1e-9)
    whole = merged([nothing, Summary(2, 8, preset, random_state=0, shard=2)])
    assert whole.n_nodes == 0
    with pytest.raises(InputError, match="empty"):
        whole.coreset()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_block_of_empty_summaries_can_be_read_into(preset):
    whole = merged([Summary(2, 8, preset, random_state=0, shard=i) for i in range(8)])
    assert whole.n_nodes == 0
    assert Summary.from_bytes(whole.to_bytes()).to_bytes() == whole.to_bytes()
    whole.update(certain(100))
    assert whole.n_nodes == 100
    assert_allclose(whole.coreset().mass.sum(), certain(100).mass.sum(), rtol=1e-9)


# -- reading on -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n_parts", [2, 8, 9, 16])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_merged_summary_reads_on(preset, n_parts):
    parts, more = shards(preset, lengths=LENGTHS[preset][:n_parts])[0], uncertain(150, seed=9)
    found = []
    for step in (1, 1000):
        whole = merged(parts)
        for start in range(0, 150, step):
            whole.update(more[start : start + step])
        found.append(whole)
    assert len({summary.to_bytes() for summary in found}) == 1
    assert found[0].n_nodes == sum(part.n_nodes for part in parts) + 150
    assert_allclose(found[0].mass, sum(part.mass for part in parts) + more.mass.sum(), rtol=1e-12)
    assert_allclose(found[0].coreset().mass.sum(), found[0].mass, rtol=1e-9)


def test_costs_are_right_also_of_what_was_read_after_a_merge():
    parts, data = shards(lengths=[30] * 4)
    more = uncertain(700, seed=9)
    whole = merged(parts)
    whole.update(more)
    assert keys(whole) == [(0, 1, 0, 0), (0, 0, 1, 0)]
    everything = Nodes.concat([data, more])
    assert_allclose(tuple(whole.evaluate(CENTERS)), (expected_cost(everything, CENTERS), 0.0), rtol=1e-12)


def test_a_block_that_has_read_on_merges_further():
    parts, _ = shards(lengths=[40] * 16)
    first, second = merged(parts[:8]), merged(parts[8:])
    first.update(certain(100))
    second.update(certain(100, seed=1))
    assert merged([first, second]).to_bytes() == merged([second, first]).to_bytes()
    assert merged([first, second]).n_nodes == 16 * 40 + 200


def test_blocks_of_different_heights_that_have_read_on_merge_too():
    # Shards 2 and 3 are block 1 of height 1, shards 4 to 7 block 1 of height 2: not the same data.
    parts, _ = shards("paper", lengths=[40] * 8)
    first, second = merged(parts[2:4]), merged(parts[4:8])
    first.update(certain(100))
    second.update(certain(100, seed=1))
    whole = merged([first, second])
    assert whole.n_nodes == 6 * 40 + 200
    assert len(set(keys(whole))) == len(keys(whole))


def test_a_scaled_summary_merges():
    first, second = summarized(uncertain(300)), summarized(uncertain(300, seed=1), shard=1)
    first.scale(0.25)
    data = Nodes.concat([uncertain(300).with_weights(0.25 * uncertain(300).weights), uncertain(300, seed=1)])
    assert_allclose(tuple(merged([first, second]).evaluate(CENTERS)), (expected_cost(data, CENTERS), 0.0), rtol=1e-12)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 1}, "n_clusters 2 and 1"),
        ({"size": 9}, "size 8 and 9"),
        ({"preset": "paper"}, "preset 'default' and 'paper'"),
        ({"shard": 0}, "shard 0 of the same seed"),
    ],
)
def test_summaries_that_are_not_alike_are_refused(options, message):
    summary, other = summarized(certain(100)), summarized(certain(100, seed=1), **{"shard": 1} | options)
    before = summary.to_bytes(), other.to_bytes()
    with pytest.raises(InputError, match=message):
        summary.merge(other)
    assert (summary.to_bytes(), other.to_bytes()) == before


def test_other_features_are_refused():
    summary, other = summarized(certain(100)), summarized(certain(100, d=3), shard=1)
    before = summary.to_bytes()
    with pytest.raises(InputError, match="3 features, but the summary has read nodes with 2"):
        summary.merge(other)
    assert summary.to_bytes() == before


@pytest.mark.parametrize("n", [0, 10, 500])
def test_a_summary_cannot_be_merged_with_itself(n):
    summary = summarized(certain(n) if n else certain(1)[:0])
    before = summary.to_bytes()
    with pytest.raises(InputError, match="shard 0 of the same seed"):
        summary.merge(summary)
    assert summary.to_bytes() == before


@pytest.mark.parametrize("n_parts", [2, 8, 16])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_part_counts_once_also_when_it_is_in_a_block(preset, n_parts):
    parts, _ = shards(preset, lengths=[20] * 16)
    whole = merged(parts[:n_parts])
    before = whole.to_bytes()
    for number in (0, n_parts - 1):
        with pytest.raises(InputError, match=f"shard {number} of the same seed"):
            whole.merge(parts[number])
        with pytest.raises(InputError, match=f"shard {number} of the same seed"):
            copy.copy(parts[number]).merge(whole)
    assert whole.to_bytes() == before


@pytest.mark.parametrize("what", [None, 3, "summary", certain(3), b""])
def test_only_summaries_are_merged(what):
    with pytest.raises(InputError, match=f"Only a Summary can be merged into a Summary, not {type(what).__name__}"):
        Summary(2, 8).merge(what)


# -- threads ----------------------------------------------------------------------------------------------------------


def test_two_summaries_that_merge_each_other_do_not_wait_for_ever():
    for number in range(20):
        pair = [summarized(certain(70, seed=i), shard=i, random_state=number) for i in range(2)]
        together, refused = threading.Barrier(2), []

        def merge(i, pair=pair, together=together, refused=refused):
            together.wait(20)
            try:
                pair[i].merge(pair[1 - i])
            except InputError:  # the other one was faster, and holds this one by now
                refused.append(i)

        threads = [threading.Thread(target=merge, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert len(refused) < 2
        assert {pair[i].n_nodes for i in range(2) if i not in refused} == {140}
