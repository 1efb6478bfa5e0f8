"""Objects as files below one folder of this machine, durable before their commit."""
