"""The older interface of quantization, by names of types; what it does is done by QAT and PTQ."""
