"""The names and signatures of two other packages, so that a program switches by its import::

    from bloomfile.compat import pybloomfilter          # in place of: import pybloomfilter
    from bloomfile.compat.rbloom import Bloom           # in place of: from rbloom import Bloom

The files are bloomfiles, and those of the other packages are not read. Keys are ``str``, bytes, and
whole numbers; what the others hand to ``hash()`` is a TypeError here, because its result differs
between processes, unless rbloom's ``hash_func`` is given.
"""

from . import pybloomfilter, rbloom

__all__ = ["pybloomfilter", "rbloom"]
