"""GrADyS-SIM NextGen (PyPI ``gradysim``): drones that fly about and broadcast.

Runs in an interpreter that has gradysim 0.8.2; see ``peer.py`` for the protocol. A step is 0.1 s of
simulated time: mobility every ``--update`` s for each drone, one broadcast per drone each
``--period`` s that reaches the drones within 60 m, at 10 drones per 100 m x 100 m.

    python benchmarks/peers/gradysim_swarm.py --drones 1000 --update 0.1 --steps 40
"""

import argparse
import logging
import random

import serve
from gradysim.protocol.interface import IProtocol
from gradysim.protocol.messages.communication import BroadcastMessageCommand
from gradysim.protocol.plugin.random_mobility import RandomMobilityConfig, RandomMobilityPlugin
from gradysim.simulator.handler.communication import CommunicationHandler, CommunicationMedium
from gradysim.simulator.handler.mobility import MobilityConfiguration, MobilityHandler
from gradysim.simulator.handler.timer import TimerHandler
from gradysim.simulator.simulation import SimulationBuilder, SimulationConfiguration

STEP = 0.1
RANGE = 60.0
HEIGHT = 50.0


def build(drones, update, period, seed):
    """Return (simulator, counts); counts has the packets heard and sent."""
    random.seed(seed)
    half = 50.0 * (drones / 10.0) ** 0.5
    counts = {"heard": 0, "sent": 0}

    class Drone(IProtocol):
        def initialize(self):
            area = RandomMobilityConfig(
                x_range=(-half, half), y_range=(-half, half), z_range=(0, HEIGHT)
            )
            self.wander = RandomMobilityPlugin(self, area)
            self.wander.initiate_random_trip()
            first = self.provider.current_time() + period * random.random()
            self.provider.schedule_timer("broadcast", first)

        def handle_timer(self, timer):
            counts["sent"] += 1
            self.provider.send_communication_command(BroadcastMessageCommand("here"))
            self.provider.schedule_timer("broadcast", self.provider.current_time() + period)

        def handle_packet(self, message):
            counts["heard"] += 1

        def handle_telemetry(self, telemetry):
            pass

        def finish(self):
            pass

    builder = SimulationBuilder(SimulationConfiguration(execution_logging=False))
    builder.add_handler(CommunicationHandler(CommunicationMedium(transmission_range=RANGE)))
    builder.add_handler(TimerHandler())
    builder.add_handler(MobilityHandler(MobilityConfiguration(update_rate=update)))
    for _ in range(drones):
        x, y = random.uniform(-half, half), random.uniform(-half, half)
        builder.add_node(Drone, (x, y, random.uniform(0, HEIGHT)))
    simulator = builder.build()
    logging.getLogger().setLevel(logging.WARNING)
    simulator.step_simulation()
    return simulator, counts


def stepper(simulator):
    """Return a function that runs one step.

    gradysim can run one event or all of them, not up to a time, so the next event's time is read
    from its loop. That costs the peer nothing that it would not also pay inside.
    """
    heap = simulator._event_loop._event_heap
    state = {"until": STEP}

    def step():
        until = state["until"]
        while heap[0].timestamp < until:
            simulator.step_simulation()
        state["until"] = until + STEP

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drones", type=int, default=1000)
    parser.add_argument("--update", type=float, default=0.1, help="s between mobility updates")
    parser.add_argument("--period", type=float, default=1.0, help="s between broadcasts")
    parser.add_argument("--seed", type=int, default=0)
    serve.add_arguments(parser)
    args = parser.parse_args()
    simulator, counts = build(args.drones, args.update, args.period, args.seed)
    info = {
        "peer": "gradysim",
        "drones": args.drones,
        "update": args.update,
        "period": args.period,
        "seed": args.seed,
    }
    serve.serve(stepper(simulator), info, "gradysim", args, counts)


if __name__ == "__main__":
    main()
