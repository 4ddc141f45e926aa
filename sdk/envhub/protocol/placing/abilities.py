"""What workers have learned since the first release: a run that needs it goes only to a worker that names it.

An older worker would take such a run and fail at it. A name goes when no worker without it is taken any more
(envhub.protocol.placing.releases).
"""

from __future__ import annotations

PACK_SOURCE = "pack_source"  # make packages of an uploaded folder: envhub.protocol.registry.builds.SourcePayload
REPLAY = "replay"  # begin rollouts as a stored one did: envhub.protocol.evals.replays
REPLAY_TRAINING = "replay_training"  # as one of a training run did: Replay.training
SANDBOX_MODELS = "sandbox_models"  # give a user's sandbox models to call: SandboxPayload.models
SANDBOX_SIBLINGS = "sandbox_siblings"  # let programs outside make more beside a sandbox: SandboxPayload.siblings
ABILITIES = (PACK_SOURCE, REPLAY, REPLAY_TRAINING, SANDBOX_MODELS, SANDBOX_SIBLINGS)  # of this release's workers
