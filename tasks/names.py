"""What actors are called. A sender needs the name and the arguments, never the actor's code."""

from __future__ import annotations

#: Takes the next step of a job, on the control queue. Arguments: job id (text), generation (int).
STEP_JOB = "step_job"
#: Runs one operation of a job on a node's queue. Arguments: job id (text), op_generation (int).
RUN_OPERATION = "run_operation"
