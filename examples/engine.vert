#version 450
// engine.vert - a particle of engine.c as a point. See there for how it is compiled.

layout(location = 0) in vec2 place;    // pixels
layout(location = 1) in vec4 light;
layout(location = 0) flat out vec4 colour;

const vec2 picture = vec2(960.0, 540.0); // as in engine.k

void main() {
    vec2 middle = floor(place) + 0.5;  // of the pixel, so that no rounding makes it the next
    gl_Position = vec4(2.0 * middle / picture - 1.0, 0.0, 1.0);
    gl_PointSize = 1.0;
    colour = light;
}
