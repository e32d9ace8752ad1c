"""The serving backend: launching SGLang servers and speaking to them over HTTP."""
