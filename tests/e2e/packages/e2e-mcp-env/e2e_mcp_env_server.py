"""The server: started by the environment."""

try:
    from mcp.server.mcpserver import MCPServer
except ModuleNotFoundError:
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("letters")


@server.tool()
def count_letters(word: str) -> str:
    """Count the letters of a word."""
    return str(len(word))


if __name__ == "__main__":
    server.run()
