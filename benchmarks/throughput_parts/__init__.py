"""The parts of benchmarks/throughput.py: the work, the contestants, and the referee who times them in turns."""
