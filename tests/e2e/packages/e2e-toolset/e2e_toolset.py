"""A shop: tools with a private price list, a customer who answers back, and every kind of signal."""

import verifiers as vf


class Prices:
    def __init__(self):
        self.known = {"apple": 3, "pear": 4}

    def __call__(self, item: str) -> int:
        return self.known.get(item, 0)


def build_prices() -> Prices:
    return Prices()


def build_book() -> dict:
    return {"sold": []}


async def price_of(item: str, prices) -> str:
    """The price of an item."""
    return str(prices(item))


async def sell(item: str, book) -> str:
    """Sell an item."""
    book["sold"].append(item)
    return f"sold {len(book['sold'])}"


async def hidden_tool(item: str) -> str:
    """Never shown."""
    return item


async def weigh(item: str, book) -> str:
    """The weight of an item: only a [eval.taskset.toolsets] table brings this tool in."""
    return f"{len(item) + len(book)} ounces"


async def customer(task, state, messages) -> list:
    """Asks once more, then is content."""
    asked = sum(1 for message in messages if dict(message).get("role") == "user")
    return [] if asked > task.get("patience", 1) else [{"role": "user", "content": "And a pear?"}]


async def cheap(task, state) -> float:
    """A reward that only a [eval.taskset] table brings in."""
    return 0.25


class ShopConfig(vf.TasksetConfig):
    items: int = 3
    patience: int = 1
    objects: dict[str, str] = {"prices": "e2e_toolset:build_prices"}
    bindings: dict[str, str] = {"knows_prices.prices": "objects.prices"}
    user: str | None = "e2e_toolset:customer"


class Shop(vf.Taskset[ShopConfig]):
    def load_tasks(self) -> vf.Tasks:
        return [
            {
                "example_id": index,
                "prompt": [{"role": "user", "content": f"An apple, customer {index}."}],
                "answer": "3",
                "patience": self.config.patience,
                "max_turns": 4,
                "tools": {"hide": ["hidden_tool"]},
            }
            for index in range(self.config.items)
        ]

    def load_eval_tasks(self) -> vf.Tasks:
        return (row for row in self.load_tasks())

    @vf.setup
    async def open_shop(self, task, state) -> None:
        state["events"] = ["setup"]

    @vf.setup(priority=50)
    async def unlock(self, task, state) -> None:
        state["unlocked"] = True

    @vf.update
    async def count_turns(self, task, state) -> None:
        state["events"].append("update")
        state["replies"] = len(vf.get_messages(state.get("completion") or [], role="assistant"))

    @vf.metric
    async def replies(self, task, state) -> float:
        return float(state["replies"])

    @vf.reward(weight=1.0)
    async def lifecycle(self, task, state) -> float:
        return float(state["unlocked"] and state["events"] == ["setup", "update"])

    @vf.reward(weight=0.5, priority=-1)
    async def knows_prices(self, task, state, prices) -> float:
        return float(str(prices("apple")) == task["answer"])

    @vf.reward(stage="group", weight=1.0)
    async def first_of_group(self, tasks, states) -> list[float]:
        return [float(index == 0) for index in range(len(states))]

    @vf.advantage
    async def spread(self, tasks, states) -> list[float]:
        return [float(index) - (len(states) - 1) / 2 for index in range(len(states))]

    @vf.cleanup
    async def close_shop(self, task, state) -> None:
        state["events"].append("cleanup")

    @vf.teardown
    async def demolish(self) -> None:
        print("e2e-toolset: teardown ran")


def load_taskset(config: ShopConfig) -> Shop:
    shop = Shop(config=config)
    shop.add_toolset(
        vf.Toolset(
            tools=[price_of, sell, hidden_tool],
            bindings={"price_of.prices": "objects.prices", "sell.book": "objects.book"},
            objects={"prices": build_prices, "book": build_book},
        )
    )
    return shop


class ShopHarnessConfig(vf.HarnessConfig):
    max_turns: int = 5


class ShopHarness(vf.Harness):
    config: ShopHarnessConfig


def load_harness(config: ShopHarnessConfig) -> ShopHarness:
    return ShopHarness(config=config)


class ShopEnvConfig(vf.EnvConfig):
    taskset: ShopConfig = ShopConfig()
    harness: ShopHarnessConfig = ShopHarnessConfig()


def load_environment(config: ShopEnvConfig) -> vf.Env:
    return vf.Env(taskset=vf.load_taskset(config=config.taskset), harness=vf.load_harness(config=config.harness))
