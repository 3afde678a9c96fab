"""The workloads' networks as a script has them: usual layers in the usual order, parameters in the order of Motet's."""

from torch import Tensor, nn
from torch.nn.functional import pad

VOCABULARY = 80  # of lstm-shakespeare, and its classes


def plain_net(name: str) -> nn.Module:
    """For images of 28 x 28, colour images of 32 x 32, or characters."""
    if name == "resnet8":
        return resnet8()
    if name == "stacked-lstm":
        return StackedLSTM()
    if name == "twonn":
        hidden = [*dense(784, 200), *dense(200, 200), *dense(200, 200)]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(200, 10, bias=False))
    features, bias = {"cnn4": (512, True), "fedrod-conv": (50, False)}[name]
    body = [*conv(1, 32), *conv(32, 64), nn.Flatten(), *dense(1024, features, bias=True)]
    return nn.Sequential(*body, nn.Linear(features, 10, bias=bias))


def conv(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """A convolution in the usual order."""
    return nn.Conv2d(inputs, outputs, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)


def dense(inputs: int, outputs: int, bias: bool = False) -> tuple[nn.Module, ...]:
    """A linear layer in the usual order."""
    return nn.Linear(inputs, outputs, bias=bias), nn.ReLU(inplace=True)


class Residual(nn.Module):
    """A block of a ResNet for CIFAR, with zeros for new channels on the way around."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.new, self.stride = outputs - inputs, 1 if inputs == outputs else 2
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        """ReLU(F(x) + x)"""
        around = pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.new // 2, self.new // 2))
        return (self.body(x) + around).relu()


def resnet8() -> nn.Module:
    """For ten classes."""
    stem = (nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
    blocks = (Residual(16, 16), Residual(16, 32), Residual(32, 64))
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class StackedLSTM(nn.Module):
    """LEAF's network for Shakespeare."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.fc = nn.Linear(256, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        """The next character."""
        output, _ = self.lstm(self.embed(x))
        logits: Tensor = self.fc(output[:, -1])
        return logits
