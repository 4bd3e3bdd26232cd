"""The service: decisions over HTTP, durable. `belated serve` starts it."""
