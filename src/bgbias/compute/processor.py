"""What Linux tells of the processor; elsewhere nothing is known."""

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
# Instructions that multiply bf16, of Intel's and AMD's processors and of ARM's.
BF16 = ("avx512_bf16", "amx_bf16", "bf16")


def fact(key: str, cpuinfo: Path = CPUINFO) -> str:
    """What it says of the first core under ``key``; empty where it says nothing."""
    for line in cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def bf16(cpuinfo: Path = CPUINFO) -> tuple[str, ...] | None:
    """Its instructions for bf16; without any, torch emulates them, many times slower than float32. None: not known."""
    flags = (fact("flags", cpuinfo) or fact("Features", cpuinfo)).split()
    return tuple(name for name in BF16 if name in flags) if flags else None
