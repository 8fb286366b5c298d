"""Pools of background photos, and which of them stands behind which photo."""
