"""Stand-in packages for the engine's process on a CPU; never imported as `slime.sglang.cpu.stand_ins`."""
