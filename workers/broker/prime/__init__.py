"""The protocol of the prime-sandboxes client, over a session of the broker."""

from workers.broker.prime.memory import Memory
from workers.broker.prime.routes import gateway_routes, prime_routes
from workers.broker.prime.service import PREFIX
from workers.broker.prime.tunnels import PATH as TUNNEL_PATH
from workers.broker.prime.tunnels import Tunnels, tunnel_gateway
from workers.broker.prime.variables import prime_variables, tunnel_files

__all__ = [
    "PREFIX",
    "TUNNEL_PATH",
    "Memory",
    "Tunnels",
    "gateway_routes",
    "prime_routes",
    "prime_variables",
    "tunnel_files",
    "tunnel_gateway",
]
