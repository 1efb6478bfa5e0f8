"""Python runs this first in every process of a pipeline under test, the driver's and those that the JVM starts."""

import os

if "KILL_PLAN" in os.environ and "KILL_DRIVER" in os.environ:
    from spark.kill.killing import arm

    arm()
