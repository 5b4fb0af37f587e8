"""Time, peak memory and cost in one table, with the peer beside us; run with ``make bench DATA=folder``."""
