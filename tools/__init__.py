"""What a checkout is kept with; runs on the system's Python and is not part of the wheel."""
