"""The order of the gallery: from the first thing a newcomer wants to see to the last."""

ORDER = ("hurricane", "sensors", "imputation", "outliers", "elbow", "drift", "sites", "covertype")


class ReportContext:
    """Sort key of sphinx-gallery: place in ORDER; what is not named there comes last, by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        """Place of a script."""
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER)), name
