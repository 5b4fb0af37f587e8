"""Coresets: few weighted nodes that stand for many. Each module has one ``reduce``."""
