"""erase: remove rows (e.g. under GDPR) from every file, snapshot, quarantine and stored sample."""
