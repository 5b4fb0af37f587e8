"""Arrow tables and the four layouts: points, groups, long, nested. Arrays come out; Nodes checks and keeps them."""
