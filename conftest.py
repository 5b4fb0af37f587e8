"""Before anything imports Numba: a cache folder that belongs to these kernels (see tools/kernel_cache.py).

It stands at the root, not in tests/, because the examples in src/ and in the README run kernels too.
"""

import os

from kernel_cache import cache_folder

os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))
