"""The field: systems for uncertain data compared with known classes, as anyone can do again.

Labelled data sets are made uncertain in stated ways, each system clusters them, and its clusters are compared with the
classes. A system is a file in ``systems/``; ``worker.py`` runs it in an environment of its own.
"""
