"""Known failures that nothing is checked for: what makes each impossible here, or which feature does not exist."""

from __future__ import annotations

from slime.config.flags import Text
from slime.config.rule import Rule

RULES = (
    Rule(
        id="one-padding-knob",
        row=7,
        source="",
        title=Text("两处补齐倍数一致", "Two padding multiples agree"),
        why=Text(
            "补齐倍数有两个参数时，取值不同会让张量的形状对不上。",
            "With two flags for the padding, different values give tensors of different shapes.",
        ),
        absent=Text(
            "只有 --data-pad-size-multiplier 一个参数，其余都由它算出。",
            "There is one flag, --data-pad-size-multiplier; everything else follows from it.",
        ),
    ),
    Rule(
        id="one-sequence-length",
        row=32,
        source="prime-rl#1455, prime-rl#3127",
        title=Text("训练端与采样端的长度一致", "Trainer and rollout agree about the length"),
        why=Text(
            "训练端的序列长度较小时，样本会被悄悄截断。",
            "When the trainer's sequence length is smaller, samples are cut without a word.",
        ),
        prevented=Text(
            "训练端没有自己的序列长度：打包按样本的真实长度进行，--seq-length 会按名字被拒绝。",
            "The trainer has no length of its own: it packs samples at their true length, and --seq-length is refused "
            "by name.",
        ),
    ),
    Rule(
        id="conversion-layout",
        row=40,
        source="",
        title=Text("转换不沿用训练的并行大小", "A conversion does not inherit the parallel sizes of training"),
        why=Text(
            "转换用的进程数与训练不同，沿用训练的 TP、PP 就除不尽。",
            "A conversion runs on another number of processes, and TP and PP of training do not divide them.",
        ),
        prevented=Text(
            "slime convert 只认自己的参数；checkpoint 与并行方式无关，加载时再切分。",
            "slime convert takes its own flags alone; a checkpoint belongs to no layout and is split when it is "
            "loaded.",
        ),
    ),
    Rule(
        id="first-health-check",
        row=66,
        source="",
        title=Text("正在编译的引擎不会被当作失败", "An engine that compiles is not taken for one that failed"),
        why=Text(
            "首次启动要编译 kernel；监控过早检查，会把正在编译的引擎当作失败而终止。",
            "The first start compiles kernels; a monitor that looks too early ends an engine that is still compiling.",
        ),
        prevented=Text(
            "没有定时的健康检查：看的是引擎的进程是否还在，挂起的引擎由 SGLang 自己的看门狗结束。",
            "No monitor asks at intervals: the engine's process is watched, and SGLang's own watchdog ends a server "
            "that hangs.",
        ),
    ),
    Rule(
        id="plain-checkpoints",
        row=44,
        source="slime#686",
        title=Text("checkpoint 只含普通数据", "Checkpoints hold plain data"),
        why=Text(
            "把自己的类序列化进 checkpoint，另一个版本就读不出来。",
            "With a class of the project pickled into it, a checkpoint cannot be read by another version.",
        ),
        prevented=Text(
            "状态保存为 JSON 和普通张量，读取时从不反序列化对象。",
            "State is saved as JSON and plain tensors, and reading never unpickles an object.",
        ),
    ),
    Rule(
        id="one-temperature",
        row=57,
        source="trl#4159, OpenRLHF#853",
        title=Text("采样与训练的温度相同", "Rollout and training use one temperature"),
        why=Text(
            "两处温度不同时，重要性比率系统性地偏离 1。",
            "With two temperatures the importance ratio is off from 1 throughout.",
        ),
        prevented=Text(
            "只有 --rollout-temperature 一个参数，采样、重算、参考策略和教师都读它；0 会被拒绝。",
            "There is one flag, --rollout-temperature, that rollout, recomputation, reference and teacher read; 0 is "
            "refused.",
        ),
    ),
    Rule(
        id="no-fixed-temperature",
        row=59,
        source="miles#1345, slime#2085",
        title=Text("没有写死的温度", "No temperature is written into the code"),
        why=Text(
            "重算打分时写死的温度 0 会让教师的概率失真。",
            "A temperature of 0 in the code that scores again distorts the teacher's probabilities.",
        ),
        prevented=Text(
            "一项测试在源码里查找写死的温度。",
            "A test searches the sources for temperatures that are written out.",
        ),
    ),
    Rule(
        id="merge-before-derivation",
        row=63,
        source="",
        title=Text("先合并所有来源，再派生数值", "All sources are merged before anything is derived"),
        why=Text(
            "配置文件在派生之后才应用时，批大小、卸载等派生值仍是旧的。",
            "With a file applied after derivation, derived values such as batch sizes and offloads are stale.",
        ),
        prevented=Text(
            "文件和参数按出现的顺序合并，后者优先，然后才派生和检查；未知的键是错误，并给出最接近的名字。",
            "Files and flags are merged in their order, later wins; then values are derived and checked. An unknown "
            "key is an "
            "error with the nearest name.",
        ),
    ),
    Rule(
        id="known-flags",
        row=64,
        source="",
        title=Text("没有未知的参数", "No flag is unknown"),
        why=Text(
            "拼错的参数被忽略时，运行用的是默认值，没有任何提示。",
            "When a misspelt flag is ignored, the run uses the default and says nothing.",
        ),
        prevented=Text(
            "解析器只认登记过的参数，其余一律拒绝，并给出最接近的名字。",
            "The parser knows the registered flags and refuses everything else with the nearest name.",
        ),
    ),
    Rule(
        id="generated-shells",
        row=69,
        source="",
        title=Text("脚本由程序生成，并经过 shellcheck", "Shells are generated, and pass shellcheck"),
        why=Text(
            "抄来的脚本会定义用不到的变量，又忽略自己的开关。",
            "Copied shells define variables that nothing uses and ignore their own switches.",
        ),
        prevented=Text(
            "实验室只生成脚本，测试用 shellcheck 检查每一个。",
            "The lab generates every shell, and the tests run shellcheck over each.",
        ),
    ),
    Rule(
        id="requantised-blocks",
        row=74,
        source="",
        title=Text("切分较细的引擎需要较小的 FP8 块", "An engine that is split finely needs smaller FP8 blocks"),
        why=Text(
            "有的模型按 128 行分块，32 路切分之后不是整块，需要按 64 行重新量化。",
            "A model in blocks of 128 rows that is split 32 ways needs quantising again in blocks of 64.",
        ),
        prevented=Text(
            "规则 fp8-blocks 读取 checkpoint 自己的块大小，因此也覆盖这种情况。",
            "The rule fp8-blocks reads the checkpoint's own block size, so it covers this too.",
        ),
    ),
)
