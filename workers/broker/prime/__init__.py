"""The HTTP service that unmodified prime-sandboxes and prime-tunnel clients call, on top of a broker session."""

from workers.broker.prime.outside_tunnels import OutsideTunnels
from workers.broker.prime.routes import gateway_routes, prime_routes
from workers.broker.prime.service import PREFIX
from workers.broker.prime.tunnels import PATH as TUNNEL_PATH
from workers.broker.prime.tunnels import BoxTunnels, tunnel_gateway
from workers.broker.prime.variables import prime_variables, tunnel_files

__all__ = [
    "PREFIX",
    "TUNNEL_PATH",
    "BoxTunnels",
    "OutsideTunnels",
    "gateway_routes",
    "prime_routes",
    "prime_variables",
    "tunnel_files",
    "tunnel_gateway",
]
