"""Every setting, declared once: name, unit, check, default, doc and the version that brought it."""
