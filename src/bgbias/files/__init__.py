"""Bytes on disks and in archives: written whole or not at all, fetched and verified."""
