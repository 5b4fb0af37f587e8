"""Forged files for every parser, found by atheris; run with ``make fuzz``."""
