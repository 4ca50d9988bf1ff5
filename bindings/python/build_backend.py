"""The build backend: scikit-build-core, whose source distributions get the files that links lead
to, the core's source among them.
"""

import tarfile

from scikit_build_core.build import *  # noqa: F403

tarfile.TarFile.dereference = True
