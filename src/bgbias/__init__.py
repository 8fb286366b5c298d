"""bgbias: does a retrieval model look at the object, or at what stands behind it?"""

__version__ = "0.1.0"
