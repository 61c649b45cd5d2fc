"""A stand-in for TRL; its version is that of a ``trl-*.dist-info`` beside it on PYTHONPATH."""
