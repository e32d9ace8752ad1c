"""Ray: where processes are placed, the actors that hold trainer and engines, supervision, and what joins the two."""
