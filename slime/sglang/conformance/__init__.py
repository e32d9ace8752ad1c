"""What a rollout engine must do for the loop, as checks that run over HTTP against any address.

`slime engine check URL` runs them; the tests run them against SGLang on a CPU.
"""
