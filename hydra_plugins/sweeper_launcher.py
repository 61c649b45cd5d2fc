"""The one name Hydra 1.3 insists on for a launcher; everything it does is in sweeper.multirun."""

from sweeper.multirun import GroupedLauncher


class SweeperLauncher(GroupedLauncher):
    """``_target_`` of every ``conf/hydra/launcher/*.yaml``."""
