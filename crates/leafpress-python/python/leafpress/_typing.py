"""`Self` and `Unpack` of `typing`, also in Python 3.10, which does not have them.

The types of all public functions can be resolved when the program runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self as Self
    from typing_extensions import Unpack as Unpack
elif sys.version_info >= (3, 11):
    from typing import Self, Unpack
else:
    Self = Any

    class Unpack:
        """Stands for the options that it is given."""

        def __class_getitem__(cls, options: Any) -> Any:
            return options
